/**
 * What `belfry doctor` finds out about this machine and the stores that a server here would use: one line a
 * thing, each with a fix where something is off. Changes nothing, and ends whatever does not answer: each
 * look has its limit.
 */
import { openZoneSource, zoneDataOnDisk, zoneDirectories } from '../adapters/zones/zone-source.ts'
import { systemClock } from '../adapters/system/clock.ts'
import { loadConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import type { Diagnosis, LocalZones } from './diagnosis.ts'
import { wordsOf } from './diagnosis.ts'
import { examineAudit } from './doctor-audit.ts'
import { examineContainers } from './doctor-containers.ts'
import { examineDataDirectory } from './doctor-data-directory.ts'
import { examineDatabase } from './doctor-database.ts'
import { examineKafka } from './doctor-kafka.ts'
import { examineRedis } from './doctor-redis.ts'
import { examineSecrets } from './doctor-secrets.ts'
import { examineSqs } from './doctor-sqs.ts'
import { kafkaSettings } from './kafka-settings.ts'
import { sqsSettings } from './sqs-settings.ts'
import { zoneFinding } from './zone-finding.ts'

export interface DoctorOptions {
  /** Settings given as flags, by their name in the configuration. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly configFile?: string
  readonly env: Readonly<Record<string, string | undefined>>
}

const wholeLimitMs = 20_000

/** Never throws. */
export async function examineMachine(options: DoctorOptions): Promise<readonly Diagnosis[]> {
  const { diagnosis, config } = examineConfig(options)
  const local = lookAtZones(config)
  const rest = config === undefined ? [] : await within(examineStore(config, local), 'store')
  const redis = config?.redisUrl === undefined ? [] : await within(examineRedis(config.redisUrl), 'redis')
  const forKafka = config && kafkaSettings(config)
  const kafka = forKafka === undefined ? [] : await within(examineKafka(forKafka), 'kafka')
  const forSqs = config && sqsSettings(config)
  const sqs = forSqs === undefined ? [] : await within(examineSqs(forSqs), 'sqs')
  const audit = config === undefined ? [] : examineAudit(config)
  const secrets = config === undefined ? [] : await within(examineSecrets(config), 'secrets')
  const engine = config?.containerEngine
  const containers =
    config === undefined || engine === undefined
      ? []
      : await within(examineContainers(config, engine), 'containers')
  return [
    diagnosis,
    zoneDiagnosis(local),
    ...rest,
    ...audit,
    ...secrets,
    ...redis,
    ...kafka,
    ...sqs,
    ...containers,
  ]
}

function examineConfig({ flags, env, configFile }: DoctorOptions): {
  readonly diagnosis: Diagnosis
  readonly config: Config | undefined
} {
  try {
    const file = configFile === undefined ? {} : { file: configFile }
    const { config, sources } = loadConfig({ flags, env, ...file })
    const said = Object.values(sources).filter((source) => source !== 'default').length
    const given = said === 1 ? 'One setting is' : `${said} settings are`
    const message = said === 0 ? 'All settings have their defaults.' : `${given} given; all are valid.`
    return { diagnosis: { name: 'config', status: 'ok', message, fix: null }, config }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const fix = 'Mend what is named; `belfry config show` tells where each setting comes from.'
    return { diagnosis: { name: 'config', status: 'fail', message, fix }, config: undefined }
  }
}

function lookAtZones(config: Config | undefined): LocalZones {
  const directories = zoneDirectories(config?.zoneDirectory)
  return { zones: openZoneSource(directories), onDisk: zoneDataOnDisk(directories) }
}

/** The system's copy against the bundled one; what is on record is said with the database. */
function zoneDiagnosis({ zones, onDisk }: LocalZones): Diagnosis {
  const { status, message } = zoneFinding({ zones, onDisk, newestOnRecord: undefined })
  const { bundled, system } = onDisk
  const place = zones.path === null ? 'the data in the package' : zones.path
  const others =
    system === null
      ? "the system's copy does not tell its release, or there is none"
      : zones.source === 'system'
        ? `the package has ${bundled}`
        : `the system's copy (${system.path}) is ${system.version}, which is older`
  const found = `Zone data ${zones.dataVersion} from ${place}; ${others}.`
  return { name: 'zone_data', status, message: found, fix: message }
}

async function examineStore(config: Config, local: LocalZones): Promise<Diagnosis[]> {
  return config.databaseUrl === undefined
    ? examineDataDirectory(config)
    : examineDatabase(config, config.databaseUrl, local)
}

async function within(work: Promise<Diagnosis[]>, name: string): Promise<Diagnosis[]> {
  const late = new AbortController()
  const message = `The look at the ${name} took longer than ${wholeLimitMs / 1_000} s and was given up.`
  const fix = 'See whether disk and network of this machine answer.'
  const limit = systemClock
    .sleep(wholeLimitMs, late.signal)
    .then((): Diagnosis[] => [{ name, status: 'fail', message, fix }])
  const failed = (error: unknown): Diagnosis[] => [
    { name, status: 'fail', message: wordsOf(error), fix: null },
  ]
  const found = await Promise.race([work.catch(failed), limit])
  late.abort()
  return found
}
