"""Talks to stores with their own software.

    stores.py s3|azure ENDPOINT create BUCKET
    stores.py s3|azure ENDPOINT get BUCKET KEY PATH     writes an object to a file
    stores.py s3|azure ENDPOINT put BUCKET KEY PATH     makes an object of a file
    stores.py s3|azure ENDPOINT list BUCKET             prints keys and unfinished uploads
"""

import sys

provider, endpoint, action, bucket, *rest = sys.argv[1:]

if provider == "s3":
    import boto3

    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="key", aws_secret_access_key="secret", region_name="us-east-1"
    )
    if action == "create":
        client.create_bucket(Bucket=bucket)
    elif action == "get":
        client.download_file(bucket, *rest)
    elif action == "put":
        client.upload_file(rest[1], bucket, rest[0])
    else:
        for found in client.list_objects_v2(Bucket=bucket).get("Contents", []):
            print(found["Key"])
        for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
            print("unfinished", upload["Key"])
else:
    from azure.storage.blob import ContainerClient

    # The account of the emulator, which its documentation states.
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    credential = {"account_name": "devstoreaccount1", "account_key": key}
    container = ContainerClient(f"{endpoint}/devstoreaccount1", bucket, credential=credential)
    if action == "create":
        container.create_container()
    elif action == "get":
        with open(rest[1], "wb") as file:
            container.download_blob(rest[0]).readinto(file)
    elif action == "put":
        with open(rest[1], "rb") as file:
            container.upload_blob(rest[0], file)
    else:
        for found in container.list_blobs():
            print(found.name)
