"""`python -m jostle` is the `jostle` command."""

from jostle.cli import main

if __name__ == "__main__":
    main()
