# `jostle label` and `jostle pick` in a container. From a clone:
#
#   docker build -t jostle .
#   docker run --rm --user "$(id -u)" -v "$PWD:/data" jostle pick --model mine.py:load --pool folder:photos -n 100
#   docker run --rm --user "$(id -u)" -v "$PWD:/data" -p 127.0.0.1:8765:8765 jostle label photos --classes cat,dog \
#     --host 0.0.0.0 --port 8765 --token "$TOKEN" --no-browser
#
# PyTorch from the default index includes CUDA, several GB. For a smaller image pass an index with builds for the CPU:
# docker build --build-arg PIP_EXTRA_INDEX_URL=... -t jostle .
FROM python:3.11-slim-bookworm
ARG PIP_EXTRA_INDEX_URL
ARG PIP_CONSTRAINT=constraints.txt
ARG PIP_BUILD_CONSTRAINT=constraints.txt
WORKDIR /opt/jostle
COPY LICENSE README.md constraints.txt pyproject.toml ./
COPY src src
RUN python -m pip install --no-cache-dir --disable-pip-version-check ".[label,postgres,sentences,vision]"
ENV HOME=/tmp
USER 1000
WORKDIR /data
EXPOSE 8765
ENTRYPOINT ["jostle"]
CMD ["--help"]
