/**
 * The container engine of the configuration as a worker here would meet it: does it answer, is it and its
 * runtime new enough for other people's code, can this process open networks. Starts nothing.
 */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { createEngineClient } from '../adapters/handlers/container/engine-client.ts'
import { systemClock } from '../adapters/system/clock.ts'
import type { Config } from '../config/schema.ts'
import type { Diagnosis } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'

/** Older ones can be left by a container (CVE-2025-31133, 52565, 52881). */
const leastRunc: readonly (readonly number[])[] = [
  [1, 2, 8],
  [1, 3, 3],
]

interface EngineVersion {
  readonly Version?: string
  readonly ApiVersion?: string
  readonly Components?: readonly { readonly Name?: string; readonly Version?: string }[]
}

/** Never throws. */
export async function examineContainers(config: Config, engine: string): Promise<Diagnosis[]> {
  const client = createEngineClient(engine.slice('unix://'.length))
  try {
    const askedMs = systemClock.monotonicMs()
    const version = (await client.call('GET', '/version', { timeoutMs: 5_000 })) as EngineVersion
    const tookMs = Math.round(systemClock.monotonicMs() - askedMs)
    return [
      engineDiagnosis(version, tookMs),
      runtimeDiagnosis(version),
      imageDiagnosis(config),
      ...networkDiagnoses(config),
    ]
  } catch (error) {
    const fix = 'Start Docker or Podman, and correct containerEngine; see docs/how-to/containers.md.'
    return [{ name: 'containers', status: 'fail', message: wordsOf(error), fix }]
  } finally {
    client.close()
  }
}

function engineDiagnosis(
  { Version = '?', ApiVersion = '?', Components = [] }: EngineVersion,
  tookMs: number,
): Diagnosis {
  const name = Components.find((each) => /engine/i.test(each.Name ?? ''))?.Name ?? 'The engine'
  const message = `${name} ${Version} answers (API ${ApiVersion}, ${tookMs} ms).`
  const [major = 0, minor = 0] = ApiVersion.split('.').map(Number)
  if (major > 1 || minor >= 41) return { name: 'containers', status: 'ok', message, fix: null }
  return { name: 'containers', status: 'fail', message, fix: 'Use Docker 20.10 or Podman 4, or newer.' }
}

function runtimeDiagnosis({ Components = [] }: EngineVersion): Diagnosis {
  const said = Components.find((each) => /runc/i.test(`${each.Name} ${each.Version}`))?.Version ?? ''
  const numbers = /(\d+)\.(\d+)\.(\d+)/.exec(said)?.slice(1).map(Number)
  const name = 'container_runtime'
  if (numbers === undefined) {
    const message = 'Its runtime is not runc, or does not say its version.'
    return { name, status: 'ok', message, fix: null }
  }
  const message = `Its runtime is runc ${numbers.join('.')}.`
  if (isNewEnough(numbers)) return { name, status: 'ok', message, fix: null }
  const fix = 'Use runc 1.2.8 or 1.3.3, or newer: from older ones a container may get out (CVE-2025-31133).'
  return { name, status: 'warn', message, fix }
}

function isNewEnough([major = 0, minor = 0, patch = 0]: readonly number[]): boolean {
  const line = leastRunc.find(([, each]) => each === minor && major === 1)
  if (line !== undefined) return patch >= (line[2] ?? 0)
  return major > 1 || minor > 3
}

function imageDiagnosis({ containerImages, containerDigests, containerPull }: Config): Diagnosis {
  const name = 'container_images'
  if (containerImages.length === 0) {
    const message = 'No image is allowed, but for tenants that have a list of their own.'
    return { name, status: 'warn', message, fix: 'Set containerImages, such as registry.example.com/team/*.' }
  }
  const by = containerDigests === 'required' ? 'by digest' : 'by tag or digest'
  const pulled = containerPull === 'missing' ? 'pulled where they are missing' : 'never pulled'
  return {
    name,
    status: 'ok',
    message: `Allowed ${by}, ${pulled}: ${containerImages.join(', ')}.`,
    fix: null,
  }
}

function networkDiagnoses({ containerInternet, containerEgressLists }: Config): Diagnosis[] {
  const name = 'container_egress'
  const classes = [...(containerInternet ? ['internet'] : []), ...Object.keys(containerEgressLists)]
  if (classes.length === 0) return []
  const message = `Classes of egress: ${classes.join(', ')}.`
  const lacks = [
    ...(process.platform === 'linux' && process.getuid?.() === 0 ? [] : ['to be root on Linux']),
    ...(isOnPath('nsenter') ? [] : ['nsenter (util-linux)']),
  ]
  if (lacks.length === 0) return [{ name, status: 'ok', message, fix: null }]
  const why = 'to open networks of containers; runs that want one fail here'
  const fix = `A worker needs ${lacks.join(' and ')} ${why}.`
  return [{ name, status: 'fail', message, fix }]
}

function isOnPath(program: string): boolean {
  return (process.env['PATH'] ?? '').split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return true
    } catch {
      return false
    }
  })
}
