"""Asks a server one question over the OpenAI chat API. Needs Python alone.

    python3 ask.py BASE_URL MODEL [--stream] QUESTION
"""

import argparse
import json
import sys
import urllib.error
import urllib.request


def post(base_url, body):
    """POSTs a chat request and returns the open response."""
    request = urllib.request.Request(
        f"{base_url}/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    return urllib.request.urlopen(request, timeout=120)


def print_stream(response):
    """Prints each token's text when its event arrives."""
    for line in response:
        data = line.decode().strip().removeprefix("data: ")
        if not data or data.startswith(":"):
            continue
        if data == "[DONE]":
            print()
            return
        event = json.loads(data)
        if "error" in event:
            sys.exit(f"\nerror: {event['error']['message']}")
        for choice in event["choices"]:
            print(choice["delta"].get("content") or "", end="", flush=True)
    sys.exit("\nerror: the stream ended early")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base_url")
    parser.add_argument("model")
    parser.add_argument("question")
    parser.add_argument("--stream", action="store_true")
    args = parser.parse_args()

    body = {
        "model": args.model,
        "messages": [{"role": "user", "content": args.question}],
        "temperature": 0,
        "stream": args.stream,
    }
    print(f"\n> {args.question}")
    try:
        with post(args.base_url, body) as response:
            if args.stream:
                print_stream(response)
            else:
                answer = json.load(response)
                print(answer["choices"][0]["message"]["content"])
                print("usage:", json.dumps(answer["usage"]))
    except urllib.error.HTTPError as error:
        sys.exit(f"error {error.code}: {json.load(error)['error']['message']}")


if __name__ == "__main__":
    main()
