"""Transforms, apart from the products between them or fused with these."""
