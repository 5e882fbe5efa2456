# rlockd and, inside, the redis-server it starts unless RLOCKD_REDIS names one:
#
#   docker build -t rlockd .
#   docker run -p 127.0.0.1:7400:7400 -v rlockd:/data rlockd
#   docker run -p 127.0.0.1:7400:7400 --read-only -e RLOCKD_REDIS=redis://redis:6379 rlockd
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends \
        gcc libc6-dev make pkg-config \
        libmicrohttpd-dev libgnutls28-dev libhiredis-dev libjansson-dev uuid-dev uthash-dev \
        libcurl4-openssl-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# Empty: the version that the Makefile names.
ARG VERSION=
RUN make -j"$(nproc)" ${VERSION:+VERSION="$VERSION"} \
    && make install DESTDIR=/out PREFIX=/usr ${VERSION:+VERSION="$VERSION"}

FROM ${BASE}
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends \
        redis-server ca-certificates libmicrohttpd12t64 libgnutls30t64 libhiredis1.1.0 \
        libjansson4 libuuid1 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 7400 rlockd \
    && useradd --uid 7400 --gid 7400 --no-create-home --shell /usr/sbin/nologin rlockd \
    && install -d -o rlockd -g rlockd -m 700 /data
COPY LICENSE /usr/share/doc/rlockd/LICENSE
COPY --from=build /out/usr/bin/rlockd /usr/bin/rlockd

# By number, so that Kubernetes' runAsNonRoot can tell.
USER 7400
WORKDIR /data
VOLUME /data
EXPOSE 7400
ENV RLOCKD_LISTEN=0.0.0.0:7400 RLOCKD_DATA_DIR=/data
STOPSIGNAL SIGTERM

# Ready: Redis answers and nobody has asked for the end. bash speaks HTTP well enough to ask, but
# no TLS: with a certificate the check is that the port is open.
HEALTHCHECK --interval=5s --timeout=3s --start-period=15s --retries=3 CMD bash -c '\
    exec 3<>/dev/tcp/127.0.0.1/${RLOCKD_LISTEN##*:} || exit 1; \
    [ -z "$RLOCKD_TLS_CERT" ] || exit 0; \
    printf "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" >&3 \
    && read -r _ status _ <&3 && [ "$status" = 200 ]'
ENTRYPOINT ["/usr/bin/rlockd"]
