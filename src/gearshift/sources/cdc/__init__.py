"""Change data capture: Debezium connectors in Kafka Connect."""
