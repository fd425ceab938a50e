/**
 * Redis and Kafka for the cluster demo, as they are installed on this machine: on loopback, with nothing kept
 * on disk that outlives the demo. What is not installed is said, with what to install.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'

export interface LocalServer {
  readonly port: number
  readonly words: string
  /** kill -9. */
  kill(): Promise<void>
  /** Again, on the same port. */
  start(): Promise<void>
}

/** What to tell a person about a part that is missing. */
export interface Missing {
  readonly missing: string
}

/** Kafka needs long on a loaded machine; what ends at its start is noticed at once. */
const startLimitMs = 120_000

export async function startRedis(path: string | undefined): Promise<LocalServer | Missing> {
  const program = onPath('redis-server', path)
  if (program === undefined) {
    const fix = 'install it (Debian: apt-get install redis-server, macOS: brew install redis)'
    return { missing: `not found on PATH; timers and leadership go by Postgres. To see it: ${fix}` }
  }
  const port = await freePort()
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no']
  return supervise({ port, words: `on port ${port}`, command: program, args })
}

/** `home` is KAFKA_HOME: an unpacked Kafka, or a folder of its jars. */
export async function startKafka(
  path: string | undefined,
  home: string | undefined,
  directory: string,
): Promise<LocalServer | Missing> {
  const java = onPath('java', path)
  const jars = jarsOf(home)
  if (java === undefined || jars === undefined) {
    const what = java === undefined ? 'java is not on PATH' : `KAFKA_HOME is ${home ?? 'not set'}`
    const fix = 'unpack Kafka 4 (kafka.apache.org), set KAFKA_HOME to it, and have Java 17 or newer on PATH'
    return { missing: `not found (${what}); runs and events go by Postgres. To see it: ${fix}` }
  }
  const [port, controller] = [await freePort(), await freePort()]
  mkdirSync(directory, { recursive: true })
  const settings = join(directory, 'server.properties')
  writeFileSync(settings, kafkaSettings(port, controller, join(directory, 'data')))
  const classPath = ['-cp', join(jars, '*'), '-Dorg.slf4j.simpleLogger.defaultLogLevel=off']
  const tool = [...classPath, 'kafka.tools.StorageTool', 'format', '--standalone', '-c', settings]
  const format = spawn(java, [...tool, '-t', 'YmVsZnJ5LWRlbW8tMDAwMA'], { stdio: 'ignore' })
  const [code] = (await once(format, 'exit')) as [number | null]
  if (code !== 0) return { missing: `could not be prepared (its storage tool ended with ${code})` }
  const args = ['-Xmx512m', ...classPath, 'kafka.Kafka', settings]
  return supervise({ port, words: `on port ${port}`, command: java, args })
}

function kafkaSettings(port: number, controller: number, data: string): string {
  return Object.entries({
    'process.roles': 'broker,controller',
    'node.id': 1,
    'controller.quorum.bootstrap.servers': `127.0.0.1:${controller}`,
    listeners: `PLAINTEXT://127.0.0.1:${port},CONTROLLER://127.0.0.1:${controller}`,
    'advertised.listeners': `PLAINTEXT://127.0.0.1:${port}`,
    'controller.listener.names': 'CONTROLLER',
    'listener.security.protocol.map': 'CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT',
    'log.dirs': data,
    'offsets.topic.replication.factor': 1,
    'offsets.topic.num.partitions': 4,
    'transaction.state.log.replication.factor': 1,
    'transaction.state.log.min.isr': 1,
    'share.coordinator.state.topic.replication.factor': 1,
    'share.coordinator.state.topic.min.isr': 1,
    'group.initial.rebalance.delay.ms': 0,
  })
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')
}

/** Both layouts: `libs` of an unpacked Kafka, and the jars alone. */
function jarsOf(home: string | undefined): string | undefined {
  if (home === undefined || home === '') return undefined
  const hasBroker = (folder: string): boolean =>
    existsSync(folder) && readdirSync(folder).some((file) => /^kafka_2\.\d+-\d.*\.jar$/.test(file))
  return [join(home, 'libs'), home].find(hasBroker)
}

function onPath(name: string, path: string | undefined): string | undefined {
  const files = (path ?? '').split(delimiter).map((folder) => join(folder, name))
  return files.find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}

async function supervise(program: {
  readonly port: number
  readonly words: string
  readonly command: string
  readonly args: readonly string[]
}): Promise<LocalServer | Missing> {
  const { port, words, command, args } = program
  let child: ChildProcess | undefined
  // whatever ends the demo, ends what it started
  process.once('exit', () => child?.kill('SIGKILL'))
  const start = async (): Promise<void> => {
    // apart from the terminal, whose Ctrl-C is for the demo
    child = spawn(command, [...args], { stdio: 'ignore', detached: true })
    const failed = once(child, 'exit').then(() => Promise.reject(new Error(`${command} ended at its start`)))
    await Promise.race([untilListening(port), failed])
    failed.catch(() => undefined)
  }
  const kill = async (): Promise<void> => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }
  try {
    await start()
  } catch (error) {
    await kill()
    return { missing: error instanceof Error ? error.message : String(error) }
  }
  return { port, words, kill, start }
}

async function untilListening(port: number): Promise<void> {
  const deadlineMs = Date.now() + startLimitMs
  while (!(await listens(port))) {
    if (Date.now() > deadlineMs) throw new Error(`nobody listens on port ${port} after ${startLimitMs} ms`)
    await sleep(100)
  }
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
