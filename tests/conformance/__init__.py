"""The suites that users run on their own algorithms and patterns."""
