"""Bytes, by their names."""

KIBIBYTE = 1024
MEBIBYTE = 1024 * KIBIBYTE
