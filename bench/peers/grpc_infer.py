"""A server of KServe's ModelInfer in Python's grpc.aio that gives back the one tensor it gets: what `graphmill-bench grpc` sends.

    pip install tritonclient[grpc]
    python bench/peers/grpc_infer.py --port 9001
    graphmill-bench grpc --base-url http://127.0.0.1:9001
"""

import argparse
import asyncio

import grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc


class Mirror(service_pb2_grpc.GRPCInferenceServiceServicer):
    """Answers with the tensor of the request."""

    async def ModelInfer(self, request, context):
        answer = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        given = request.inputs[0]
        answer.outputs.add(name="same_x", datatype=given.datatype, shape=given.shape)
        answer.raw_output_contents.append(request.raw_input_contents[0])
        return answer


async def serve(port):
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Mirror(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--port", type=int, default=9001)
    asyncio.run(serve(arguments.parse_args().port))
