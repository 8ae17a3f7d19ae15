"""Reading the text of a ds_config into a tree that remembers where every key and value stands.

What is read, and as which value, is what DeepSpeed's own reader (`hjson.load`) makes of the file.
"""

from dsconf.source.document import Document, Extension, ExtensionKind, Fault, Position
from dsconf.source.read import read_bytes, read_file, read_text
from dsconf.source.tree import (
    MAX_DEPTH,
    Array,
    Member,
    Node,
    Object,
    Place,
    Scalar,
    Span,
    Style,
    find,
    find_key,
    from_python,
    plain,
)

__all__ = [
    "MAX_DEPTH",
    "Array",
    "Document",
    "Extension",
    "ExtensionKind",
    "Fault",
    "Member",
    "Node",
    "Object",
    "Place",
    "Position",
    "Scalar",
    "Span",
    "Style",
    "find",
    "find_key",
    "from_python",
    "plain",
    "read_bytes",
    "read_file",
    "read_text",
]
