# rlockd, rlock, and the redis-server that rlockd starts unless RLOCKD_REDIS names one: these
# programs, what they load, and nothing else.
#
#   docker build -t rlockd .
#   docker run -p 127.0.0.1:7400:7400 -v rlockd:/data rlockd
#   docker run -p 127.0.0.1:7400:7400 --read-only -e RLOCKD_REDIS=redis://redis:6379 rlockd
#
# rlock with a shell, for jobs and init containers:
#
#   docker build -t rlock --target rlock .
#   docker run -e RLOCK_URL=http://rlockd:7400 rlock rlock run backup sh -c 'echo alone'
ARG BASE=debian:trixie-slim
ARG VERSION=0.2.0

FROM ${BASE} AS build
ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update && apt-get install -y --no-install-recommends \
        gcc libc6-dev make pkg-config \
        libmicrohttpd-dev libgnutls28-dev libhiredis-dev libjansson-dev uuid-dev uthash-dev \
        libevent-dev libssl-dev ca-certificates redis-tools \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
ARG VERSION
RUN make -j"$(nproc)" VERSION="$VERSION" \
    && make install DESTDIR=/out PREFIX=/usr VERSION="$VERSION" \
    && cp /out/usr/bin/* /usr/bin \
    && strip /usr/bin/rlockd /usr/bin/rlock \
    && sh deploy/image.sh /image /usr/bin/rlockd /usr/bin/rlock /usr/bin/redis-check-rdb \
    && ln -s redis-check-rdb /image/usr/bin/redis-server \
    && install -D -m 644 -t /image/usr/share/doc/rlockd LICENSE \
    && install -d -o 7400 -g 7400 -m 700 /image/data

FROM ${BASE} AS rlock
ARG DEBIAN_FRONTEND=noninteractive
# Of libevent a pattern: Debian 13 has put t64 behind these names.
RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates libjansson4 '^libevent-(core|extra|openssl)-2[.]1-7(t64)?$' \
    && rm -rf /var/lib/apt/lists/*
COPY LICENSE /usr/share/doc/rlock/LICENSE
COPY --from=build /usr/bin/rlock /usr/bin/rlock
ARG VERSION
LABEL org.opencontainers.image.title="rlock" \
      org.opencontainers.image.description="runs commands while a lock of rlockd is held" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
USER 7400

FROM scratch
COPY --from=build /image /
ARG VERSION
# The commit: --build-arg REVISION="$(git rev-parse HEAD)"
ARG REVISION=
LABEL org.opencontainers.image.title="rlockd" \
      org.opencontainers.image.description="lock server over HTTP, with locks in Redis" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# By number, so that Kubernetes' runAsNonRoot can tell.
USER 7400
WORKDIR /data
EXPOSE 7400
ENV PATH=/usr/bin RLOCKD_LISTEN=0.0.0.0:7400 RLOCKD_DATA_DIR=/data
STOPSIGNAL SIGTERM
# Ready: Redis answers and nobody has asked for the end. It goes by RLOCKD_LISTEN and
# RLOCKD_TLS_CERT, not by flags.
HEALTHCHECK --interval=5s --timeout=3s --start-period=15s --retries=3 \
    CMD ["/usr/bin/rlock", "ready", "--connect-timeout", "0"]
ENTRYPOINT ["/usr/bin/rlockd"]
