// A real Kafka broker (KRaft, one node) for one test, bench or demo: on free loopback ports and in a
// directory of its own, and every fault that it can have. SIGKILL is how it stops: what it kept is on disk.
// One that was killed comes back on the same ports, as the same cluster.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { join } from 'node:path'
import { makeFastDirectory } from './temporary-directory.ts'

/** A limit, where the machine is loaded: a broker is two JVMs one after the other, 5 s on a quiet one. */
const startMs = 120_000
/** For the hook that starts one. */
export const kafkaStartMs = 2 * startMs

export type KafkaServerOptions = {
  /** The address that it listens at, for clients on another host too; 127.0.0.1 if not said. */
  readonly host?: string
  /** Clients have to say who they are, at a listener of its own: name and password, by PLAIN and SCRAM. */
  readonly users?: Readonly<Record<string, string>>
  /** A listener with TLS: certificate and key in PEM. */
  readonly tls?: { readonly certificate: string; readonly key: string }
  /** Only what is allowed to a user may be done; the plain listener is that of the superuser. */
  readonly authorize?: boolean
  /** More lines of server.properties. */
  readonly settings?: readonly string[]
}

export type KafkaServer = {
  /** host:port of the plain listener. */
  readonly brokers: string
  /** host:port where clients have to log in (`users`), or speak TLS (`tls`). */
  readonly saslBrokers: string
  readonly tlsBrokers: string
  readonly pid: () => number
  readonly pause: () => void
  readonly goOn: () => void
  /** Ends it as a crash does; `start` brings it back with what is on disk. */
  readonly kill: () => Promise<void>
  readonly start: () => Promise<void>
  /** Runs one of the tools of Kafka, such as `kafka.admin.ConfigCommand`, at the plain listener. */
  readonly tool: (className: string, args: readonly string[]) => string
  /** Ends it and removes what it kept. */
  readonly close: () => Promise<void>
}

/** `jars` is the folder of the broker's jars (test/support/services.ts). */
export async function startKafkaServer(jars: string, options: KafkaServerOptions = {}): Promise<KafkaServer> {
  const { host = '127.0.0.1' } = options
  const directory = makeFastDirectory('belfry-kafka')
  const ports = await freePorts(host, 4)
  const properties = join(directory, 'server.properties')
  mkdirSync(join(directory, 'data'))
  writeFileSync(properties, serverProperties(directory, ports, options))
  const classes = ['-cp', join(jars, '*')]
  format(classes, properties, options)
  const [plain = 0, , sasl = 0, tls = 0] = ports
  const brokers = `${host}:${plain}`
  let child = await startBroker(classes, directory, properties, brokers)
  const kill = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill('SIGKILL')
    await gone
  }
  return {
    brokers,
    saslBrokers: `${host}:${sasl}`,
    tlsBrokers: `${host}:${tls}`,
    pid: () => child.pid ?? 0,
    pause: () => void child.kill('SIGSTOP'),
    goOn: () => void child.kill('SIGCONT'),
    kill,
    async start() {
      child = await startBroker(classes, directory, properties, brokers)
    },
    tool: (className, args) => java(classes, [className, '--bootstrap-server', brokers, ...args]),
    async close() {
      await kill()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function serverProperties(directory: string, ports: readonly number[], options: KafkaServerOptions): string {
  const [plain = 0, controller = 0, sasl = 0, tls = 0] = ports
  const { users, authorize, host = '127.0.0.1' } = options
  const listeners = [
    ['PLAINTEXT', plain, 'PLAINTEXT'] as const,
    ...(users === undefined ? [] : [['LOGIN', sasl, 'SASL_PLAINTEXT'] as const]),
    ...(options.tls === undefined ? [] : [['TLS', tls, 'SSL'] as const]),
  ]
  const at = (all: readonly (readonly [string, number, string])[]): string =>
    all.map(([name, port]) => `${name}://${host}:${port}`).join(',')
  const map = [...listeners, ['CONTROLLER', controller, 'PLAINTEXT'] as const]
  return [
    'process.roles=broker,controller',
    'node.id=1',
    `controller.quorum.bootstrap.servers=${host}:${controller}`,
    `listeners=${at(map)}`,
    `advertised.listeners=${at(listeners)}`,
    'controller.listener.names=CONTROLLER',
    'inter.broker.listener.name=PLAINTEXT',
    `listener.security.protocol.map=${map.map(([name, , protocol]) => `${name}:${protocol}`).join(',')}`,
    `log.dirs=${join(directory, 'data')}`,
    'offsets.topic.replication.factor=1',
    'offsets.topic.num.partitions=4',
    'transaction.state.log.replication.factor=1',
    'transaction.state.log.min.isr=1',
    'share.coordinator.state.topic.replication.factor=1',
    'share.coordinator.state.topic.min.isr=1',
    'group.initial.rebalance.delay.ms=0',
    'auto.create.topics.enable=false',
    // else one that was killed may not come back before its last session is over: 9 s
    'broker.session.timeout.ms=2000',
    'broker.heartbeat.interval.ms=500',
    ...(users === undefined ? [] : loginProperties(users)),
    ...(options.tls === undefined ? [] : tlsProperties(directory, options.tls)),
    ...(authorize === true
      ? [
          'authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer',
          'super.users=User:ANONYMOUS',
        ]
      : []),
    ...(options.settings ?? []),
    '',
  ].join('\n')
}

function loginProperties(users: Readonly<Record<string, string>>): string[] {
  const known = Object.entries(users).map(([name, password]) => `user_${name}="${password}"`)
  const prefix = 'listener.name.login'
  const security = 'org.apache.kafka.common.security'
  const plain = `${security}.plain.PlainLoginModule required ${known.join(' ')};`
  const scram = `${security}.scram.ScramLoginModule required;`
  return [
    `${prefix}.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512`,
    `${prefix}.plain.sasl.jaas.config=${plain}`,
    ...['256', '512'].map((bits) => `${prefix}.scram-sha-${bits}.sasl.jaas.config=${scram}`),
  ]
}

function tlsProperties(directory: string, { certificate, key }: { certificate: string; key: string }) {
  const file = join(directory, 'tls.pem')
  writeFileSync(file, `${key}${certificate}`)
  return ['listener.name.tls.ssl.keystore.type=PEM', `listener.name.tls.ssl.keystore.location=${file}`]
}

function format(classes: readonly string[], properties: string, { users = {} }: KafkaServerOptions): void {
  const scram = Object.entries(users).flatMap(([name, password]) =>
    ['256', '512'].flatMap((bits) => ['-S', `SCRAM-SHA-${bits}=[name=${name},password=${password}]`]),
  )
  const id = randomBytes(16).toString('base64url').replace(/^-/, 'x')
  java(classes, ['kafka.tools.StorageTool', 'format', '--standalone', '-t', id, '-c', properties, ...scram])
}

function java(classes: readonly string[], args: readonly string[]): string {
  const quick = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-Xshare:auto']
  const run = spawnSync('java', [...quick, ...classes, ...args], { encoding: 'utf8', timeout: startMs })
  if (run.status === 0) return run.stdout
  throw new Error(
    `${args[0]} failed (${run.status ?? run.signal}): ${run.stdout} ${run.stderr}`.slice(0, 2_000),
  )
}

async function startBroker(
  classes: readonly string[],
  directory: string,
  properties: string,
  address: string,
): Promise<ChildProcess> {
  const log = join(directory, 'log')
  // small, and quick to start; slf4j-simple writes to stderr
  const flags = ['-Xms128m', '-Xmx384m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1', '-Xshare:auto']
  const quiet = ['-Dorg.slf4j.simpleLogger.defaultLogLevel=warn']
  const java = ['exec java', ...flags, ...quiet, `-cp '${classes[1]}'`].join(' ')
  const line = `${java} kafka.Kafka '${properties}' >>'${log}' 2>&1`
  const child = spawn('/bin/sh', ['-c', line], { stdio: 'ignore' })
  const deadlineMs = performance.now() + startMs
  while (!(await answers(address))) {
    if (performance.now() > deadlineMs || child.exitCode !== null) {
      child.kill('SIGKILL')
      const words = existsSync(log) ? readFileSync(log, 'utf8').slice(-2_000) : ''
      throw new Error(`The Kafka broker did not start: ${words}`)
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return child
}

/** Whether it answers a question for its versions: its listener is open some time before it does. */
function answers(address: string): Promise<boolean> {
  const { hostname, port } = new URL(`kafka://${address}`)
  // length, ApiVersions (18) version 0, correlation 1, no client id
  const question = Buffer.from('0000000a001200000000' + '0001ffff', 'hex')
  return new Promise((resolve) => {
    const socket = connect(Number(port), hostname, () => socket.write(question))
    const end = (is: boolean): void => {
      socket.destroy()
      resolve(is)
    }
    socket.setTimeout(2_000, () => end(false))
    socket.once('data', () => end(true))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}

async function freePorts(host: string, count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, host))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(
    servers.map((server) => {
      server.close()
      return once(server, 'close')
    }),
  )
  return ports
}
