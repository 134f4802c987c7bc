"""The suites that users run on their own rules and patterns."""
