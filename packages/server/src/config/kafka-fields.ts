/**
 * The settings of Kafka, as parts of schema.ts, and which of them go together. Certificates and keys are
 * text; the variables that end in `_FILE` read them from files.
 */
import { z } from 'zod'
import { about, aboutSecret, flag, list, oneOf, text, whole } from './fields.ts'

const broker = z
  .string({ error: 'is not a list of brokers' })
  .regex(/^[A-Za-z0-9.-]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/, {
    error: 'holds what is not a broker; write it like kafka-1.internal:9092,kafka-2.internal:9092',
  })

const pem = (what: string) =>
  z
    .string({ error: 'is not text' })
    .regex(/-----BEGIN [A-Z ]+-----/, {
      error: `is not ${what} in PEM; for a file use the variable that ends in _FILE`,
    })
    .optional()

export const kafkaFields = {
  kafkaBrokers: list(broker)
    .refine((brokers) => brokers.length > 0, { error: 'is empty' })
    .optional()
    .meta(
      about(
        'Kafka 4 brokers to begin with, host:port, for the run queue and events; Kafka may lose everything ' +
          'at any moment',
      ),
    ),
  kafkaPrefix: z
    .string({ error: 'is not text' })
    .regex(/^[A-Za-z0-9.-]{1,64}$/, { error: 'is not 1 to 64 letters, digits, ".", "-"' })
    .default('belfry')
    .meta(
      about(
        'How the names of all topics and groups in Kafka begin; one for each installation that shares it',
      ),
    ),
  kafkaUsername: text
    .optional()
    .meta(about('User to log in to Kafka with (SASL); without it nobody logs in')),
  kafkaPassword: text.optional().meta(aboutSecret('Password of `kafkaUsername`')),
  kafkaMechanism: oneOf(['plain', 'scram-sha-256', 'scram-sha-512'])
    .default('scram-sha-512')
    .meta(about('How the user logs in; `plain` sends the password itself, so only with TLS')),
  kafkaTls: flag.default(false).meta(about('Speak TLS with the brokers')),
  kafkaTlsCa: pem('a certificate').meta(
    about(
      'Certificates that those of the brokers are signed with, where the system does not know them, in PEM',
    ),
  ),
  kafkaTlsCertificate: pem('a certificate').meta(
    about('Certificate of this client, in PEM, where brokers want one'),
  ),
  kafkaTlsKey: pem('a key').meta(aboutSecret('Key of `kafkaTlsCertificate`, in PEM')),
  kafkaPartitions: whole(1, 1_000)
    .default(8)
    .meta(
      about(
        'Partitions of topics that Belfry makes: the most processes among which one queue is spread by Kafka',
      ),
    ),
  kafkaReplication: whole(1, 100)
    .optional()
    .meta(about('Copies of topics that Belfry makes', "the brokers' default")),
}

type KafkaGiven = z.infer<z.ZodObject<typeof kafkaFields>>

/** Calls `fault` for each setting that does not go with the others. */
export function checkKafka(
  config: KafkaGiven & { readonly sqsQueueUrl?: string | undefined },
  fault: (key: keyof KafkaGiven, message: string) => void,
): void {
  const { kafkaUsername, kafkaPassword, kafkaTls, kafkaTlsCa, kafkaTlsCertificate, kafkaTlsKey } = config
  if (config.kafkaBrokers !== undefined && config.sqsQueueUrl !== undefined) {
    const message =
      'kafkaBrokers and sqsQueueUrl are both given, and runs can be announced by one of them only; ' +
      'leave KAFKA_BROKERS or SQS_QUEUE_URL out'
    fault('kafkaBrokers', message)
  }
  if ((kafkaUsername === undefined) !== (kafkaPassword === undefined)) {
    const missing = kafkaUsername === undefined ? 'Username' : 'Password'
    const given = missing === 'Username' ? 'Password' : 'Username'
    const name = `BELFRY_KAFKA_${missing.toUpperCase()}`
    fault(`kafka${missing}`, `kafka${missing} is missing, and kafka${given} is given; set ${name}`)
  }
  if ((kafkaTlsCertificate === undefined) !== (kafkaTlsKey === undefined)) {
    const message = 'kafkaTlsCertificate and kafkaTlsKey belong together; give both, or neither'
    fault('kafkaTlsCertificate', message)
  }
  if (!kafkaTls && (kafkaTlsCa ?? kafkaTlsCertificate ?? kafkaTlsKey) !== undefined) {
    fault('kafkaTls', 'kafkaTls is not on, and certificates are given; set BELFRY_KAFKA_TLS=true')
  }
}
