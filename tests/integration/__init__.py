"""Tests of several parts together, without a browser."""
