"""`python -m minispec` does what `minispec` does."""

from minispec.cli import main

if __name__ == "__main__":
    main()
