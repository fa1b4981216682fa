"""Avro: schemas of types, resolution of writers' schemas, decoding, and differences between versions."""
