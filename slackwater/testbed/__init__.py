"""The testbed: one command that runs every part of Slackwater and leaves nothing behind."""
