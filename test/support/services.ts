// What tests need from the machine beyond Node and npm: one row a service. scripts/test.ts installs what is
// missing where it may, and otherwise reports the suites that had to be left out; test/support/needs.ts skips
// them. To add a service, add a row, and wrap its suites in `describeNeeding`.
import { spawnSync } from 'node:child_process'
import { accessSync, constants, existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { kafkaJars } from './kafka-jars.ts'
import { moto, pythonWith, schemathesis } from './python-tools.ts'

export type Service = {
  readonly name: string
  readonly purpose: string
  /** Where it is, or undefined when it is missing. Looked up anew at each call. */
  readonly find: () => string | undefined
  readonly aptPackages: readonly string[]
  /** It comes with the checkout, not with the machine: where it is missing, CI leaves its suites out too. */
  readonly ofCheckout?: true
  /** What to type on a machine without apt, or where apt has nothing for it. */
  readonly elsewhere: string
  /** The suites that are left out without it, as a person would look for them. */
  readonly suites: readonly string[]
}

function executable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The first folder of PATH that holds an executable of this name. */
function folderOnPath(name: string): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  return folders.find((folder) => executable(join(folder, name)))
}

/** Debian keeps server binaries off PATH, one folder a major version; the oldest supported one is wanted. */
function debianPostgresFolder(): string | undefined {
  const root = '/usr/lib/postgresql'
  try {
    const versions = readdirSync(root).filter((name) => /^1[5-8]$/.test(name))
    const folders = versions.sort().map((version) => join(root, version, 'bin'))
    return folders.find((folder) => executable(join(folder, 'initdb')))
  } catch {
    return undefined
  }
}

function hasCommit(name: string): boolean {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const { status } = spawnSync('git', ['-C', root, 'cat-file', '-e', `${name}^{commit}`], { stdio: 'ignore' })
  return status === 0
}

/** The folder with `initdb` and `postgres` of the system's Postgres; undefined where there is none. */
export function systemPostgresFolder(): string | undefined {
  return debianPostgresFolder() ?? folderOnPath('initdb')
}

/**
 * What the version before was made of; to be set anew when a version is out. Until there is a tag for it, its
 * commit.
 */
export const versionBefore = '1886847643d921d6e2bf182e16e4ea9aaebd8cc6'

export const services = [
  {
    name: 'history',
    purpose: 'the version before, out of the history of this repository',
    find: () => (folderOnPath('git') !== undefined && hasCommit(versionBefore) ? versionBefore : undefined),
    aptPackages: [],
    ofCheckout: true,
    elsewhere: 'git fetch --unshallow, in a clone made by git',
    suites: ['two versions on one database'],
  },
  {
    name: 'system-postgres',
    purpose: 'a second Postgres version (15 to 18) beside the embedded one',
    find: systemPostgresFolder,
    aptPackages: ['postgresql'],
    elsewhere: 'brew install postgresql@17 && export PATH="$(brew --prefix postgresql@17)/bin:$PATH"',
    suites: ['the Postgres suites on the system version'],
  },
  {
    name: 'maven',
    purpose: 'real Quartz, the origin of a cron dialect',
    find: () => (folderOnPath('javac') === undefined ? undefined : folderOnPath('mvn')),
    aptPackages: ['maven', 'default-jdk-headless'],
    elsewhere: 'brew install maven',
    suites: ['the fuzz against real Quartz'],
  },
  {
    name: 'systemd-analyze',
    purpose: 'the OnCalendar expressions of real systemd',
    find: () => folderOnPath('systemd-analyze'),
    aptPackages: ['systemd'],
    elsewhere: 'use a Linux with systemd',
    suites: ['the fuzz against real systemd'],
  },
  {
    name: 'python3',
    purpose: 'a worker in another language than ours',
    find: () => (folderOnPath('python3') === undefined ? undefined : 'python3'),
    aptPackages: ['python3'],
    elsewhere: 'brew install python',
    suites: ['the Python worker of the examples'],
  },
  {
    name: 'redis',
    purpose: 'timers, leadership and hints by Redis; the server of BullMQ, a peer in the benchmarks',
    find: () => {
      const folder = folderOnPath('redis-server')
      return folder === undefined ? undefined : join(folder, 'redis-server')
    },
    aptPackages: ['redis-server'],
    elsewhere: 'brew install redis',
    suites: ['everything with Redis', 'the benchmarks beside BullMQ'],
  },
  {
    name: 'kafka',
    purpose: 'the run queue and events by Kafka: a real broker, its jars by Maven',
    find: () => (folderOnPath('java') === undefined ? undefined : kafkaJars()),
    aptPackages: ['maven', 'default-jdk-headless'],
    elsewhere: 'brew install maven openjdk && npm test, which fetches the jars; or set KAFKA_HOME',
    suites: ['everything with Kafka'],
  },
  {
    name: 'moto',
    purpose: 'a second emulator of SQS, by pip',
    find: () => pythonWith(moto),
    aptPackages: ['python3-venv'],
    elsewhere: 'brew install python && npm test, which fetches it',
    suites: [
      'announcements by SQS, on moto',
      'master keys in KMS, on moto',
      'functions of Lambda, on moto',
      'a Lambda job of the docs, on moto',
    ],
  },
  {
    name: 'schemathesis',
    purpose: 'requests that nobody would think of, by the OpenAPI document, by pip',
    find: () => pythonWith(schemathesis),
    aptPackages: ['python3-venv'],
    elsewhere: 'brew install python && npm test, which fetches it',
    suites: ['the fuzz of every route'],
  },
  {
    name: 'podman',
    purpose: 'a real engine for containers; Podman runs them as root here',
    find: () => {
      const folder = process.getuid?.() === 0 ? folderOnPath('podman') : undefined
      const needed = ['/usr/sbin/runc', '/usr/bin/runc'].some(executable) && executable('/bin/busybox')
      return folder === undefined || !needed ? undefined : join(folder, 'podman')
    },
    aptPackages: ['podman', 'runc', 'busybox-static'],
    elsewhere: 'use a Debian or Ubuntu, as root',
    suites: ['everything that runs containers'],
  },
  {
    name: 'spin',
    purpose: 'a search through all orders of steps of a protocol',
    find: () => {
      const folder = folderOnPath('gcc') === undefined ? undefined : folderOnPath('spin')
      return folder === undefined ? undefined : join(folder, 'spin')
    },
    aptPackages: ['spin', 'gcc', 'libc6-dev'],
    elsewhere: 'brew install spin',
    suites: ['the models of the protocols'],
  },
  {
    name: 'faketime',
    purpose: 'a process whose wall clock is wrong by an hour',
    find: () => {
      const folders = ['x86_64', 'aarch64'].map((machine) => `/usr/lib/${machine}-linux-gnu/faketime`)
      return folders.map((folder) => join(folder, 'libfaketime.so.1')).find((file) => existsSync(file))
    },
    aptPackages: ['libfaketime'],
    elsewhere: 'use a Debian or Ubuntu',
    suites: ['the chaos cells with a wrong clock'],
  },
  {
    name: 'ip',
    purpose: 'another host on this machine, by network namespaces; cutting them needs root',
    find: () => {
      const folder = folderOnPath('ip') ?? '/usr/sbin'
      return executable(join(folder, 'ip')) ? join(folder, 'ip') : undefined
    },
    aptPackages: ['iproute2'],
    elsewhere: 'use a Linux with iproute2',
    suites: ['the chaos cells with a cut network'],
  },
  {
    name: 'pgbouncer',
    purpose: 'a pooler in transaction mode in front of everything',
    find: () => {
      const folder = folderOnPath('pgbouncer') ?? '/usr/sbin'
      const file = join(folder, 'pgbouncer')
      return executable(file) ? file : undefined
    },
    aptPackages: ['pgbouncer'],
    elsewhere: 'brew install pgbouncer',
    suites: ['everything through PgBouncer'],
  },
] as const satisfies readonly Service[]

export type ServiceName = (typeof services)[number]['name']

export function serviceNamed(name: ServiceName): Service {
  const service = services.find((candidate) => candidate.name === name)
  if (service === undefined) throw new Error(`test/support/services.ts has no row named ${name}`)
  return service
}
