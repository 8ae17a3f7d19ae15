"""runner: trains a model with DeepSpeed under a configuration that dsconf has checked.

`python -m runner +preset=NAME` from a command line; `runner.train.train(settings)` from Python.
"""
