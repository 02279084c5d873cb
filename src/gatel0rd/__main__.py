"""``python -m gatel0rd``: the same as the command ``gatel0rd``."""

from gatel0rd.cli.main import main

if __name__ == "__main__":
    main()
