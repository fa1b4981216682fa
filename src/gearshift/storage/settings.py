"""The settings of remote stores: the block [storage]."""

from __future__ import annotations

import re
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from gearshift.storage.access import Access

_LOOPBACK = re.compile(r"http://(127\.\d+\.\d+\.\d+|localhost|\[::1\])(:\d+)?")


class Storage(BaseModel):
    """How to reach the object store of `s3://` and `s3a://` URIs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str | None = Field(default=None, description="URL of the store; Amazon's if unset")
    access_key: SecretStr | None = Field(
        default=None, description="the access key; if unset, the environment's or the machine's role"
    )
    secret_key: SecretStr | None = Field(default=None, description="the secret key of access_key")
    session_token: SecretStr | None = Field(default=None, description="the token of temporary keys")
    region: str | None = Field(default=None, description="region of the buckets; us-east-1 if unset")
    path_style: bool | None = Field(
        default=None, description="whether a bucket is part of the path; true if endpoint is set"
    )

    @field_validator("endpoint")
    @classmethod
    def _encrypted(cls, value: str | None) -> str | None:
        if value is None or _LOOPBACK.fullmatch(value.rstrip("/")):
            return value and value.rstrip("/")
        if value.startswith("http://"):
            raise ValueError("must be https://: without TLS it may only be on this machine")
        if not re.fullmatch(r"https://[^/\s@?#]+/?", value):
            raise ValueError("must be https://host or https://host:port")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _both_keys(self) -> Self:
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key belong together; set both or neither")
        if self.session_token is not None and self.access_key is None:
            raise ValueError("session_token belongs to an access_key; set both")
        return self

    @property
    def access(self) -> Access:
        """The same for the clients of the store, with secrets in plain text."""

        def shown(secret: SecretStr | None) -> str | None:
            return None if secret is None else secret.get_secret_value()

        return Access(
            endpoint=self.endpoint,
            access_key=shown(self.access_key),
            secret_key=shown(self.secret_key),
            session_token=shown(self.session_token),
            region=self.region,
            path_style=self.path_style,
        )
