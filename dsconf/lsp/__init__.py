"""The language server: what an editor shows while a configuration is typed."""
