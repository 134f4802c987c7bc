"""Tests of the exact theory against enumeration."""
