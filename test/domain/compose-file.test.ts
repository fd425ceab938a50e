// deploy/compose.yaml against a closed schema of what it uses of the Compose specification, and against
// Belfry itself: what it says to a server is a configuration that a server takes, and the commands exist.
// Whether the parts work together is in test/cluster/compose.test.ts.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { keyRingText } from '../../packages/server/src/domain/key-ring.ts'
import { randomRing } from '../support/test-vault.ts'
import { loadConfig } from '../../packages/server/src/config/load.ts'

const deploy = fileURLToPath(new URL('../../deploy/', import.meta.url))
const duration = z.string().regex(/^\d+(ms|s|m)$/)
const capability = z.strictObject({
  condition: z.enum(['service_started', 'service_healthy', 'service_completed_successfully']),
})
const healthcheck = z.union([
  z.strictObject({ disable: z.literal(true) }),
  z.strictObject({
    test: z.tuple([z.enum(['CMD', 'CMD-SHELL'])], z.string()),
    interval: duration,
    timeout: duration,
    retries: z.int().positive(),
    start_period: duration.optional(),
  }),
])
const service = z.strictObject({
  image: z.string().regex(/^[a-z0-9./-]+:(?!latest)(\d[\w.-]*|\$\{[A-Z_]+:-\d[\w.]*\})$/),
  build: z.strictObject({ context: z.string(), dockerfile: z.string() }).optional(),
  command: z.array(z.string()).optional(),
  restart: z.enum(['unless-stopped', 'on-failure']),
  init: z.boolean().optional(),
  read_only: z.boolean().optional(),
  user: z.string().optional(),
  tmpfs: z.array(z.string()).optional(),
  shm_size: z.string().optional(),
  cap_drop: z.array(z.literal('ALL')).optional(),
  security_opt: z.array(z.literal('no-new-privileges:true')).optional(),
  stop_signal: z.string().optional(),
  stop_grace_period: duration.optional(),
  networks: z.array(z.string()),
  secrets: z.array(z.string()).optional(),
  environment: z.record(z.string().regex(/^[A-Z][A-Z0-9_]*$/), z.string()).optional(),
  ports: z.array(z.string().regex(/^127\.0\.0\.1:\d+:\d+$/)).optional(),
  volumes: z.array(z.string()).optional(),
  depends_on: z.record(z.string(), capability).optional(),
  deploy: z.strictObject({ replicas: z.int().positive() }).optional(),
  healthcheck,
})
const file = z.strictObject({
  name: z.string(),
  'x-belfry': z.unknown(),
  services: z.record(z.string(), service),
  networks: z.record(z.string(), z.strictObject({})),
  volumes: z.record(z.string(), z.strictObject({})),
  secrets: z.record(z.string(), z.strictObject({ file: z.string().regex(/^\.\/secrets\//) })),
})

const text = readFileSync(join(deploy, 'compose.yaml'), 'utf8')
const compose = file.parse(parse(text, { merge: true }))
const services = Object.entries(compose.services)
const belfrys = services.filter(([, { image }]) => image.startsWith('belfry:'))

describe('the compose file', () => {
  it('has every part, and each role', () => {
    expect(Object.keys(compose.services).toSorted()).toEqual(
      ['api', 'kafka', 'migrate', 'postgres', 'redis', 'resolver', 'scheduler', 'worker'].toSorted(),
    )
    const roles = belfrys.flatMap(([, { command = [] }]) => command[command.indexOf('--roles') + 1] ?? [])
    expect(roles).toEqual(expect.arrayContaining(['api', 'scheduler', 'worker', 'resolver']))
  })

  it.each(services)('%s names only what is there', (_, service) => {
    const { networks, secrets = [], volumes = [], depends_on = {} } = service
    const isThere = (source: string): boolean =>
      source.startsWith('./') ? existsSync(join(deploy, source)) : source in compose.volumes
    const missing = [
      ...networks.filter((name) => !(name in compose.networks)),
      ...secrets.filter((name) => !(name in compose.secrets)),
      ...volumes.filter((volume) => !isThere(volume.split(':')[0] ?? '')),
    ]
    expect(missing).toEqual([])
    for (const [name, { condition }] of Object.entries(depends_on)) {
      const other = compose.services[name]
      const fits = {
        service_started: other !== undefined,
        service_healthy: other !== undefined && 'test' in other.healthcheck,
        service_completed_successfully: other?.restart === 'on-failure',
      }
      expect(fits[condition], `${name} is ${condition}`).toBe(true)
    }
  })

  it('holds no secret, and makes all that it names', () => {
    expect(text).not.toMatch(/PASSWORD["']?\s*[:=]|:\/\/[^/\s]*:[^/\s]*@/)
    const made = readFileSync(join(deploy, 'make-secrets.sh'), 'utf8')
    for (const name of Object.keys(compose.secrets)) expect(made, name).toContain(name)
    const used = new Set(services.flatMap(([, { secrets = [] }]) => secrets))
    expect([...used].toSorted()).toEqual(Object.keys(compose.secrets).toSorted())
  })

  it.each(belfrys)(
    '%s is started with settings that Belfry takes',
    (_, { command = [], environment = {}, secrets = [] }) => {
      expect(command.slice(0, 2).join(' ')).toMatch(/^server (start|migrate)$/)
      const directory = mkdtempSync(join(tmpdir(), 'belfry-compose-'))
      try {
        const values: Record<string, string> = {
          'database-url': 'postgres://belfry:gull-harbour-41-lantern@postgres:5432/belfry',
          'migrate-url': 'postgres://belfry_owner:gull-harbour-42-lantern@postgres:5432/belfry',
          'redis-url': 'redis://belfry:gull-harbour-43-lantern@redis:6379/0',
          'secret-keys': keyRingText(randomRing(1)),
        }
        for (const name of secrets) writeFileSync(join(directory, name), values[name] ?? '')
        const env = Object.fromEntries(
          Object.entries(environment).map(([name, value]) => [
            name,
            value.replace('/run/secrets', directory),
          ]),
        )
        const at = command.indexOf('--roles')
        const { config } = loadConfig({ env, flags: at < 0 ? {} : { roles: command[at + 1] } })
        expect(new URL(config.databaseUrl ?? '').hostname).toBe('postgres')
        if (at < 0) return
        expect(config).toMatchObject({ redisUrl: values['redis-url'], kafkaBrokers: ['kafka:9092'] })
        // a stop takes drainMs and 25 s at most
        const stop = belfrys.find(([name]) => name === config.roles[0])?.[1].stop_grace_period ?? ''
        expect(Number.parseInt(stop, 10) * 1_000).toBeGreaterThanOrEqual(config.drainMs + 25_000)
      } finally {
        rmSync(directory, { recursive: true })
      }
    },
  )

  it('builds an image by scripts that exist', () => {
    const dockerfile = readFileSync(join(deploy, 'Dockerfile'), 'utf8')
    const { scripts, engines } = JSON.parse(readFileSync(join(deploy, '../package.json'), 'utf8')) as {
      scripts: Record<string, string>
      engines: { node: string }
    }
    for (const [, script = ''] of dockerfile.matchAll(/npm run ([\w:]+)/g))
      expect(scripts).toHaveProperty(script)
    expect(dockerfile.match(/^FROM node:(\d+)/gm)).toHaveLength(2)
    expect(engines.node).toMatch(/^>=\d+$/)
    expect(dockerfile).toMatch(/^USER node$/m)
  })
})
