"""Access to Kafka: the rules that an app needs, granted, and named where one is missing."""
