"""`python -m runner`."""

from runner.app import main

if __name__ == "__main__":
    main()
