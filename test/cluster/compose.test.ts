// What deploy/ says, as somebody would follow it, with servers that run natively: secrets, the first login,
// the migration, each role as a process of its own with the settings of compose.yaml, Redis under its ACL,
// Kafka with a login. Then everything goes wrong that makes processes speak of stores and logins; no secret
// is ever shown.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createClient } from '@belfry/sdk'
import pg from 'pg'
import { expect, test, vi } from 'vitest'
import { startEmbeddedPostgres } from '../../packages/server/src/postgres/embedded/embedded-postgres.ts'
import type { KafkaServer } from '../support/kafka-server.ts'
import { startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { startRedisServer } from '../support/redis-server.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { eventually } from '../support/running.ts'
import { cleanUpAfterEach, freePort } from './support/arena.ts'
import { startLedger } from './support/ledger.ts'
import { spawnNode } from './support/node-process.ts'
import type { NodeProcess } from './support/node-process.ts'

const deploy = fileURLToPath(new URL('../../deploy/', import.meta.url))
const launcher = fileURLToPath(new URL('../../packages/cli/bin/belfry.js', import.meta.url))
const roles = ['api', 'scheduler', 'worker', 'resolver'] as const
const kafkaUser = { name: 'belfry', password: 'kafka-pass-of-belfry' }

const defer = cleanUpAfterEach()

/** The files of make-secrets.sh, with the hosts of this machine in the URLs. */
function makeSecrets(ports: { readonly postgres: number; readonly redis: number }) {
  const directory = mkdtempSync(join(tmpdir(), 'belfry-secrets-'))
  defer(() => rmSync(directory, { recursive: true, force: true }))
  const make = () => spawnSync(join(deploy, 'make-secrets.sh'), [directory], { encoding: 'utf8' })
  expect(make()).toMatchObject({ status: 0, stdout: `The secrets are in ${directory}.\n` })
  const read = (name: string): string => readFileSync(join(directory, name), 'utf8')
  const first = readdirSync(directory).map((name) => [name, read(name)])
  expect(make().status).toBe(0)
  expect(
    readdirSync(directory).map((name) => [name, read(name)]),
    'a second time changes nothing',
  ).toEqual(first)
  for (const name of ['migrate-url', 'database-url', 'redis-url']) {
    const url = read(name)
      .replace('@postgres:5432', `@127.0.0.1:${ports.postgres}`)
      .replace('@redis:6379', `@127.0.0.1:${ports.redis}`)
    rmSync(join(directory, name))
    writeFileSync(join(directory, name), url)
  }
  writeFileSync(join(directory, 'kafka-password'), `${kafkaUser.password}\n`)
  return { directory, read, path: (name: string) => join(directory, name) }
}

type Secrets = ReturnType<typeof makeSecrets>

/** As the image of Postgres would: an owner, an empty database, and the script once. */
async function startPostgres(binDir: string, port: number) {
  const dataDir = mkdtempSync(join(tmpdir(), 'belfry-compose-'))
  defer(() => rmSync(dataDir, { recursive: true, force: true }))
  const postgres = await startEmbeddedPostgres({ dataDir, port, log: () => undefined })
  defer(postgres.stop)
  const sql = new pg.Client(postgres.adminConnection)
  sql.on('error', () => undefined)
  await sql.connect()
  defer(() => sql.end())
  // the login that the embedded server makes for itself
  await sql.query('DROP ROLE belfry')
  const init = ({ directory, read }: Secrets): void => {
    const owner = `CREATE ROLE belfry_owner LOGIN SUPERUSER PASSWORD '${read('postgres-password')}'`
    const { host } = postgres.adminConnection
    const psql = (...args: string[]) =>
      spawnSync(
        join(binDir, 'psql'),
        ['-h', host, '-p', String(port), '-U', 'postgres', '-d', 'belfry', ...args],
        {
          encoding: 'utf8',
          env: { PATH: '/usr/bin:/bin', BELFRY_SECRETS: directory },
        },
      )
    expect(psql('-c', owner).status).toBe(0)
    const made = psql('-f', join(deploy, 'postgres-init.sql'))
    expect([made.status, made.stderr]).toEqual([0, ''])
  }
  return { sql, init }
}

async function useAcl(redis: RedisServer, users: string): Promise<void> {
  const lines = users.trim().split('\n').toReversed()
  for (const line of lines) expect(await redis.say(line.replace(/^user/, 'ACL SETUSER'))).toBe('+OK\r\n')
  expect(await redis.say('GET x')).toMatch(/^-NOAUTH/)
}

async function belfry(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [launcher, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)])
  return { code: await ended, stdout, stderr }
}

/** `ended` is told of one that ends by itself. */
async function startRoles(
  env: Record<string, string>,
  ended: (words: string) => void,
): Promise<NodeProcess[]> {
  return Promise.all(
    roles.map((role) => {
      const node = spawnNode(role, { ...env, BELFRY_ROLES: role })
      void node.ended.then((how) => ended(`${role} ended (${how}): ${node.log.slice(-5).join('\n')}`))
      defer(async () => {
        node.signal('SIGKILL')
        await node.ended
      })
      return node.ready
    }),
  )
}

const partsUp = async ({ opsUrl }: NodeProcess): Promise<string> => {
  const metrics = await (await fetch(`${opsUrl}/metrics`)).text()
  return [...metrics.matchAll(/^belfry_part_up\{part="(\w+)"\} (\d)$/gm)]
    .map(([, part, up]) => `${part}=${up}`)
    .toSorted()
    .join(' ')
}

/** Everything that makes a process speak of its stores: what it says then. */
async function takeStores(parts: {
  readonly redis: RedisServer
  readonly kafka: KafkaServer
  readonly sql: pg.Client
  readonly nodes: readonly NodeProcess[]
  readonly env: Record<string, string>
  /** Of those that ended by themselves. */
  readonly ended: readonly string[]
}) {
  const { redis, kafka, sql, nodes, env, ended } = parts
  await Promise.all([redis.kill(), kafka.kill()])
  await sql.query(`ALTER ROLE belfry PASSWORD 'another'`)
  const isUnready = async ({ opsUrl }: NodeProcess): Promise<boolean> => {
    expect(ended).toEqual([])
    // each time: one that was being let in by the old password shows only when it is in, and would stay
    await sql.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'belfry'`)
    return (await fetch(`${opsUrl}/readyz`).catch(() => undefined))?.status === 503
  }
  for (const node of nodes) await eventually(() => isUnready(node), `${node.name} is not ready`, 90_000)
  const verbose = async ({ opsUrl }: NodeProcess) => (await fetch(`${opsUrl}/readyz?verbose`)).text()
  const faults = await Promise.all(nodes.map(verbose))
  const refused = await belfry(['doctor'], env)
  expect([refused.code, `${refused.stdout}${refused.stderr}`]).toEqual([
    1,
    expect.stringContaining('password authentication failed'),
  ])
  return { faults, refused }
}

describeNeeding('system-postgres', 'with psql', (binDir) => {
  describeNeeding('redis', 'with Redis', (program) => {
    describeNeeding('kafka', 'with Kafka', (jars) => {
      test('the deployment works as it is written, and shows no secret', { timeout: 480_000 }, async () => {
        const port = await freePort()
        const { sql, init } = await startPostgres(binDir, port)
        const redis = await startRedisServer(program)
        defer(() => redis.kill())
        const kafka = await startKafkaServer(jars, { users: { [kafkaUser.name]: kafkaUser.password } })
        defer(() => kafka.close())
        const secrets = makeSecrets({ postgres: port, redis: redis.port })
        init(secrets)
        await useAcl(redis, secrets.read('redis-users'))
        const ledger = await startLedger()
        defer(ledger.close)

        const migrated = await belfry(['server', 'migrate'], {
          DATABASE_URL_FILE: secrets.path('migrate-url'),
        })
        expect(migrated).toMatchObject({ code: 0 })
        const env = {
          DATABASE_URL_FILE: secrets.path('database-url'),
          REDIS_URL_FILE: secrets.path('redis-url'),
          KAFKA_BROKERS: kafka.saslBrokers,
          BELFRY_SECRET_KEYS_FILE: secrets.path('secret-keys'),
          BELFRY_KAFKA_USERNAME: kafkaUser.name,
          BELFRY_KAFKA_PASSWORD_FILE: secrets.path('kafka-password'),
          BELFRY_LOG_LEVEL: 'trace',
          BELFRY_EGRESS_ALLOW: '127.0.0.0/8',
        }
        const made = await belfry(['server', 'init', 'main'], env)
        expect(made).toMatchObject({ code: 0 })
        const apiKey = /bfy_\S+/.exec(made.stdout)?.[0] ?? ''
        const [doctor, shown] = await Promise.all([belfry(['doctor'], env), belfry(['config', 'show'], env)])
        expect(shown).toMatchObject({ code: 0 })
        const ended: string[] = []
        const nodes = await startRoles(env, (words) => ended.push(words))
        const [api] = nodes
        if (api === undefined) throw new Error('no role is up')

        const client = createClient({ url: api.apiUrl, apiKey })
        await client.jobs.create({ name: 'each', handler: { kind: 'http', url: `${ledger.url}/work` } })
        await client.schedules.create({ name: 'each', job: 'each', every: '1s' })
        await eventually(() => ledger.calls.length > 3, 'runs', 60_000)
        for (const node of nodes) expect(node.log.join('\n'), node.name).not.toContain('login_rights')
        // the API alone has nothing to do with Kafka
        const up = roles.map((role) => (role === 'api' ? 'redis=1' : 'kafka=1 redis=1'))
        const areUp = async () => expect(await Promise.all(nodes.map(partsUp))).toEqual(up)
        await vi.waitFor(areUp, { timeout: 90_000, interval: 200 })

        const { faults, refused } = await takeStores({ redis, kafka, sql, nodes, env, ended })
        expect(ended).toEqual([])
        await sql.query(`ALTER ROLE belfry PASSWORD '${secrets.read('belfry-password')}'`)
        const before = ledger.calls.length
        await eventually(() => ledger.calls.length > before + 3, 'runs without Redis and Kafka', 60_000)

        expect(ended).toEqual([])
        for (const node of nodes) node.signal('SIGTERM')
        await Promise.all(nodes.map(({ ended }) => ended))
        const commands = [migrated, doctor, shown, refused].map(({ stdout, stderr }) => `${stdout}${stderr}`)
        const said = [...nodes.map(({ log }) => log.join('\n')), ...commands, ...faults].join('\n')
        const passwords = ['postgres-password', 'belfry-password', 'redis-password'].map(secrets.read)
        for (const secret of [...passwords, kafkaUser.password, apiKey])
          expect(said.split('\n').filter((line) => line.includes(secret))).toEqual([])
      })
    })
  })
})
