# An image with memreel, to read snapshots, and to copy memreel from into other images: docker build -t memreel .
# An old system builds it, because the program and its libraries run with the glibc of that system or a newer one.
FROM rust:1-slim-bullseye AS build
WORKDIR /memreel
COPY . .
RUN dev/scripts/package /packages
RUN mkdir /installed && tar -xzf /packages/memreel-*.tar.gz -C /installed --strip-components=1

FROM debian:stable-slim
COPY --from=build /installed /usr/local
WORKDIR /snapshots
ENTRYPOINT ["memreel"]
