// Every place in packages/ that opens a connection, and why it may. What Belfry calls on somebody's behalf
// goes out by security/egress alone, where it is decided whom it may call; everything else here speaks to
// what the operator or the caller configured. A line without its use fails like a use without its line.

/** Modules that connect, with those of their names that do not. */
export const connecting: Readonly<Record<string, readonly string[]>> = {
  'node:http': ['createServer', 'STATUS_CODES'],
  'node:https': ['createServer'],
  'node:http2': ['createServer', 'createSecureServer'],
  'node:net': ['createServer', 'isIP', 'isIPv4', 'isIPv6', 'BlockList'],
  'node:tls': ['createServer', 'createSecureContext', 'getCACertificates'],
  'node:dgram': [],
  'node:dns': [],
  'node:dns/promises': [],
  undici: [],
  axios: [],
  got: [],
  ky: [],
  'node-fetch': [],
  superagent: [],
  ws: [],
  dockerode: [],
  pg: [],
  ioredis: [],
  '@platformatic/kafka': [],
  '@aws-sdk/client-sqs': [],
  '@kubernetes/client-node': [],
}

/** Clients that connect by whatever they are given: with this word they are given the egress module. */
export const givenWayOut: Readonly<Record<string, string>> = {
  '@aws-sdk/client-kms': 'requestHandler',
  '@aws-sdk/client-lambda': 'requestHandler',
  '@aws-sdk/client-sts': 'requestHandler',
  'openid-client': 'customFetch',
}

/** Names of the platform that connect. */
export const connectingGlobals: ReadonlySet<string> = new Set([
  'fetch',
  'WebSocket',
  'EventSource',
  'XMLHttpRequest',
])

export interface WayOut {
  /** A file, or a folder with a slash at its end. */
  readonly path: string
  /** Modules and globals. */
  readonly uses: readonly string[]
  readonly why: string
}

const server = 'packages/server/src'

export const waysOut: readonly WayOut[] = [
  {
    path: `${server}/security/egress/`,
    uses: ['node:net', 'node:tls', 'node:dns/promises', 'undici'],
    why: 'the one way out for what is called on behalf of somebody',
  },
  { path: `${server}/postgres/`, uses: ['pg'], why: 'the database of the configuration' },
  {
    path: `${server}/postgres/embedded/`,
    uses: ['node:net'],
    why: 'the socket of the Postgres that this process starts',
  },
  { path: `${server}/adapters/redis/`, uses: ['ioredis'], why: 'the Redis of the configuration' },
  { path: `${server}/adapters/kafka/`, uses: ['@platformatic/kafka'], why: 'the Kafka of the configuration' },
  { path: `${server}/adapters/sqs/`, uses: ['@aws-sdk/client-sqs'], why: 'the SQS of the configuration' },
  {
    path: `${server}/adapters/handlers/container/engine-client.ts`,
    uses: ['node:http'],
    why: 'the socket of the container engine of the configuration',
  },
  {
    path: `${server}/adapters/handlers/container/egress-proxy.ts`,
    uses: ['node:http'],
    why: 'HTTP over connections that security/egress has opened for a container',
  },
  {
    path: `${server}/compose/security-check/`,
    uses: ['node:net'],
    why: 'a socket that is never connected, in place of real ones',
  },
  {
    path: `${server}/adapters/handlers/kubernetes/`,
    uses: ['@kubernetes/client-node'],
    why: 'the cluster of the configuration',
  },
  { path: 'packages/sdk/src/', uses: ['fetch'], why: 'the Belfry that the program names' },
  {
    path: 'packages/cli/src/',
    uses: ['fetch', 'node:net'],
    why: 'the Belfry that the user names, and local ports',
  },
]
