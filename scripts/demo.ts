// `npm run demo [-- --for SECONDS] [--cluster]`: the command `belfry demo`, run from the sources, with the
// same flags, output and exit code. The cluster finds the Kafka that the tests have fetched.
import { kafkaJars } from '../test/support/kafka-jars.ts'

const jars = kafkaJars()
if (jars !== undefined) process.env['KAFKA_HOME'] ??= jars
process.argv.splice(2, 0, 'demo')
await import('../packages/cli/src/main.ts')
