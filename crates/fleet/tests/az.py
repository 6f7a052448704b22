"""The same answers from a local server of Azure's protocol (Azurite) as from the folder that was copied to it.

    python3 tests/az.py PROGRAM FOLDER

Exits with 77 where Azurite or azure-storage-blob is not installed.
"""

import base64
import os
import shutil

import stores

try:
    from azure.storage.blob import ContainerClient
except ImportError as missing:
    stores.skip(f"{missing}; pip install azure-storage-blob")

ACCOUNT = "memreel"
KEY = base64.b64encode(b"of this test only").decode()


def main():
    program = shutil.which("azurite-blob")
    if not program:
        stores.skip("azurite-blob is not in the path; npm install -g azurite")
    port = stores.free_port()
    url = f"http://127.0.0.1:{port}"
    os.environ["AZURITE_ACCOUNTS"] = f"{ACCOUNT}:{KEY}"
    # The newest version of the protocol is newer than what Azurite accepts.
    options = {"credential": KEY, "api_version": "2024-11-04", "retry_total": 0}
    container = ContainerClient(f"{url}/{ACCOUNT}", stores.BUCKET, **options)
    words = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry"]
    with stores.server(words, container.create_container):

        def upload(key, path):
            container.upload_blob(key, path.read_bytes())

        variables = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
        variables |= {"AZURE_STORAGE_ENDPOINT": f"{url}/{ACCOUNT}", "AZURE_ALLOW_HTTP": "true"}
        stores.check("az", upload, variables)


if __name__ == "__main__":
    main()
