"""Spans reach a collector that decodes them with OpenTelemetry's own Python types."""

import gzip
import http.server
import json
import threading
import urllib.request

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from conftest import MODEL, ROOT

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def collector():
    """An OTLP collector over HTTP; `spans` has what it was sent."""

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            sent = ExportTraceServiceRequest.FromString(body)
            for resource in sent.resource_spans:
                for scope in resource.scope_spans:
                    listening.spans.extend(scope.spans)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    listening.spans = []
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    yield listening
    listening.shutdown()


def attributes(span):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in span.attributes}


def test_a_foreign_collector_reads_the_spans(collector, start_server, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    server = start_server(ROOT / "config.json")
    server.wait_until(server.is_ready, "ready")
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 4}
    question = urllib.request.Request(
        f"{server.url}/v3/chat/completions",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "traceparent": f"00-{TRACE}-{PARENT}-01"},
    )
    with urllib.request.urlopen(question, timeout=60) as response:
        usage = json.load(response)["usage"]
    assert server.stop() == 0

    by_id = {span.span_id: span for span in collector.spans}
    (request,) = [span for span in collector.spans if span.name == "POST /v3/chat/completions"]
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert attributes(request)["http.response.status_code"] == 200
    (run,) = [span for span in collector.spans if span.name == f"invoke_workflow {MODEL}"]
    assert by_id[run.parent_span_id] is request
    (chat,) = [span for span in collector.spans if span.name == f"chat {MODEL}"]
    assert by_id[chat.parent_span_id] is run
    said = attributes(chat)
    assert said["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert said["gen_ai.usage.output_tokens"] == usage["completion_tokens"]
    for span in collector.spans:
        assert span.trace_id == request.trace_id
        assert request.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
