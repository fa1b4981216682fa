"""Runs moto's S3 server in its own environment: `python s3_server.py PORT [checked]`.

It prints the keys of an account and serves until its input ends.
"""

from __future__ import annotations

import json
import os
import sys

_UNCHECKED = 4  # requests before keys are checked: those that make the account and the bucket
_POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}'


def main() -> None:
    """Start, print, wait."""
    port, bucket, *checked = sys.argv[1:]
    if checked:
        os.environ["INITIAL_NO_AUTH_ACTION_COUNT"] = str(_UNCHECKED)  # read when moto is imported
    import boto3
    from moto.server import ThreadedMotoServer

    ThreadedMotoServer(ip_address="127.0.0.1", port=int(port), verbose=False).start()
    where = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "first",
        "aws_secret_access_key": "first",
    }
    iam = boto3.client("iam", **where)
    iam.create_user(UserName="gearshift")
    iam.put_user_policy(UserName="gearshift", PolicyName="all", PolicyDocument=_POLICY)
    keys = iam.create_access_key(UserName="gearshift")["AccessKey"]
    boto3.client("s3", **where).create_bucket(Bucket=bucket)
    print(json.dumps({"access_key": keys["AccessKeyId"], "secret_key": keys["SecretAccessKey"]}), flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads would wait for their connections


if __name__ == "__main__":
    main()
