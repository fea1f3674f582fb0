"""`python -m firesteel` is `firesteel`."""

from firesteel.cli.main import main

if __name__ == "__main__":
    main()
