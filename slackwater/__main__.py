"""`python -m slackwater` is the command line."""

from slackwater.cli import main

main()
