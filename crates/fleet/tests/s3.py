"""The same answers from a local S3 server (moto) as from the folder that was copied to it.

    python3 tests/s3.py PROGRAM FOLDER

Exits with 77 where moto or boto3 is not installed.
"""

import os
import sys

import stores

try:
    import boto3
    import moto.server  # noqa: F401
except ImportError as missing:
    stores.skip(f"{missing}; pip install 'moto[server]' boto3")

KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1"}


def main():
    port = stores.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    os.environ.update(KEYS)
    client = boto3.client("s3", endpoint_url=endpoint)
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with stores.server(words, client.list_buckets):
        client.create_bucket(Bucket=stores.BUCKET)

        def upload(key, path):
            client.upload_file(str(path), stores.BUCKET, key)

        stores.check("s3", upload, {"AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true"})


if __name__ == "__main__":
    main()
