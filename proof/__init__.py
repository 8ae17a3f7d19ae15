"""What the real DeepSpeed does with a configuration, and whether dsconf says the same.

Not part of the installed package: it needs DeepSpeed, and runs every configuration through it on the CPU.
"""
