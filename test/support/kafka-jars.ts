// Where the jars of a Kafka broker are: in `libs` of KAFKA_HOME, or in the cache that
// scripts/lib/fetch-kafka.ts fills. The cache is outside of the tree, so that every copy of it shares 43 MB.
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export const kafkaVersion = '4.1.0'

export function kafkaCacheFolder(): string {
  const base =
    process.getuid?.() === 0 ? '/var/cache' : process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(base, 'belfry-tests', `kafka-${kafkaVersion}`)
}

/** The folder of the jars; undefined where there is none. */
export function kafkaJars(): string | undefined {
  const home = process.env['KAFKA_HOME']
  const folders = [...(home === undefined ? [] : [join(home, 'libs')]), kafkaCacheFolder()]
  return folders.find(
    (folder) => existsSync(folder) && readdirSync(folder).some((file) => /^kafka_2\.\d+-4\./.test(file)),
  )
}
