/**
 * The settings of the audit log: the key that attests
 * it, where it is sent, how long it is kept.
 */
import { z } from 'zod'
import { about, aboutSecret, text, whole } from './fields.ts'

export const auditFields = {
  auditKey: z
    .string({ error: 'is not text' })
    .regex(/-----BEGIN PRIVATE KEY-----/, {
      error: 'is not an Ed25519 key in PEM; make one with "openssl genpkey -algorithm ed25519"',
    })
    .optional()
    .meta({
      ...aboutSecret(
        'Key that signs the audit log: Ed25519 in PEM, the same on every scheduler; better by ' +
          '`BELFRY_AUDIT_KEY_FILE`. With the embedded Postgres a key is made in `dataDir` where this is ' +
          'left out; else the log is chained and not signed',
      ),
    }),
  auditCopy: text
    .optional()
    .meta(about('File to which the audit log is appended, as JSON lines, outside of the database')),
  auditCheckpointMs: whole(1_000, 3_600_000)
    .default(30_000)
    .meta(about('How often the end of a chain that grows is signed; one that was quiet is signed at once')),
  auditRetentionDays: whole(31, 36_500)
    .default(400)
    .meta(about('Days that the audit log is kept, in whole months; what goes is attested by a signature')),
}
