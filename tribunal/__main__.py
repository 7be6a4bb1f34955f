"""`python -m tribunal`: the `tribunal` command."""

from tribunal import main

main()
