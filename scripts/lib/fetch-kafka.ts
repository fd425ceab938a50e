// Lets Maven put the jars of a Kafka broker into the cache of the tests (test/support/kafka-jars.ts). They
// come under their name only when they are all there.
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { kafkaCacheFolder, kafkaJars } from '../../test/support/kafka-jars.ts'
import { runStep } from './steps.ts'

/** True if they are there. */
export async function fetchKafka(): Promise<boolean> {
  if (kafkaJars() !== undefined) return true
  const folder = kafkaCacheFolder()
  const unfinished = `${folder}.${process.pid}`
  const project = fileURLToPath(new URL('../../test/kafka-jars/pom.xml', import.meta.url))
  mkdirSync(dirname(folder), { recursive: true })
  const command = [
    'mvn',
    '-q',
    '-B',
    '-f',
    project,
    'dependency:copy-dependencies',
    `-DoutputDirectory=${unfinished}`,
  ] as const
  const fetched = await runStep({ title: 'Kafka broker', command, limitMinutes: 10 })
  try {
    if (fetched) renameSync(unfinished, folder)
  } catch {
    // another process was first
  }
  rmSync(unfinished, { recursive: true, force: true })
  return kafkaJars() !== undefined
}
