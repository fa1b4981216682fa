"""JSON: schemas of types, decoding, and differences between versions of schemas."""
