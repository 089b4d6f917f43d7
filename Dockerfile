# offloadrt with clang and flang 22, so that real programs can be recorded as well:
#   docker build -t offloadrt . && docker run --rm -it -v "$PWD:/work" offloadrt run exahype threads=64
FROM python:3.13-slim-trixie

RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl git gnupg \
    && curl -fsSL https://apt.llvm.org/llvm-snapshot.gpg.key -o /etc/apt/trusted.gpg.d/apt.llvm.org.asc \
    && echo "deb https://apt.llvm.org/trixie/ llvm-toolchain-trixie-22 main" > /etc/apt/sources.list.d/llvm.list \
    && apt-get update \
    && apt-get install -y --no-install-recommends \
        clang-22 clang-tools-22 flang-22 libomp-22-dev liboffload-22-dev lld-22 llvm-22 llvm-22-dev make mpich libmpich-dev \
    && rm -rf /var/lib/apt/lists/*

COPY . /opt/offloadrt
RUN pip install --no-cache-dir "/opt/offloadrt[all,dask]" uv

WORKDIR /work
ENTRYPOINT ["offloadrt"]
CMD ["--help"]
