# Rightsizer as an image. It needs the devices of the host's driver, and nothing else of the host:
#   docker run --runtime=nvidia -p 19400:19400 -v rightsizer:/var/lib/rightsizer rightsizer
# With the commands' libraries, and for the fleet: --build-arg LIBRARIES=tools
# Of another base: --build-arg PYTHON=registry.internal/python:3.12

ARG PYTHON=base

# The index of all architectures; it stands here in words so that dependabot finds and renews it.
FROM python:3.12.14-slim-trixie@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS base

FROM ${PYTHON} AS build
ARG LIBRARIES=agent
ENV INSTALL="pip install --no-cache-dir --no-compile --no-deps --only-binary :all:"
WORKDIR /source
COPY config/packages/requirements ./requirements
# Whatever comes from an index is of a known hash; what builds the program stays in this stage.
RUN python -m venv /opt/rightsizer \
    && python -m venv /opt/build \
    && /opt/rightsizer/bin/${INSTALL} --require-hashes --requirement "requirements/${LIBRARIES}.txt" \
    && /opt/build/bin/${INSTALL} --require-hashes --requirement requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY config/packages/rightsizer.8 ./config/packages/
COPY daemon ./daemon
# Compiled files that go by what they are made from, not by when, are the same in each build.
RUN /opt/build/bin/hatchling build --target wheel --directory /source/wheel \
    && /opt/rightsizer/bin/${INSTALL} --no-index /source/wheel/*.whl \
    && /opt/rightsizer/bin/pip uninstall --yes pip setuptools \
    && rm /opt/rightsizer/lib/python*/site-packages/*.dist-info/direct_url.json \
    && python -m compileall -q --invalidation-mode unchecked-hash /opt/rightsizer/lib

FROM ${PYTHON}
ARG VERSION=unknown
LABEL org.opencontainers.image.title="rightsizer" \
      org.opencontainers.image.description="Accounts for every second of every GPU and says what size it should have been." \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.licenses="Apache-2.0"

# The NVIDIA runtime hands in the driver's library and its devices; NVML needs no more than `utility`.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=utility \
    PATH=/opt/rightsizer/bin:$PATH \
    PYTHONUNBUFFERED=1

# The base's own installer is of no use to an agent, and of some to whoever breaks in.
RUN groupadd --gid 19400 rightsizer \
    && useradd --uid 19400 --gid rightsizer --no-log-init --no-create-home --shell /usr/sbin/nologin rightsizer \
    && install --directory --owner=rightsizer --group=rightsizer --mode=0750 /var/lib/rightsizer /etc/rightsizer /run/rightsizer \
    && python -c "import pathlib, shutil, sysconfig; [shutil.rmtree(path) for path in pathlib.Path(sysconfig.get_path('purelib')).glob('pip*')]" \
    && rm -rf /usr/local/bin/pip* /usr/local/lib/python*/ensurepip
COPY --from=build /opt/rightsizer /opt/rightsizer

USER 19400:19400
WORKDIR /var/lib/rightsizer
# The second holds the socket for commands; both can be written under --read-only too.
VOLUME ["/var/lib/rightsizer", "/run/rightsizer"]
EXPOSE 19400

# Healthy is alive; whether samples flow is a matter of /-/ready, and no reason to be restarted. The
# local socket answers whatever TLS and passwords the web port asks for.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(4); s.connect('/run/rightsizer/api.sock'); s.sendall(b'GET /-/healthy HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n'); sys.exit(b' 200 ' not in s.recv(64))"]

STOPSIGNAL SIGTERM
ENTRYPOINT ["rightsizer"]
CMD ["agent"]
