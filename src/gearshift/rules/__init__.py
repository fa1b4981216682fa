"""What declarations may say; each refusal has the file and the line."""
