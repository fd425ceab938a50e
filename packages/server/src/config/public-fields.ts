/**
 * Where this installation is reached from outside: by targets that report, and by people and their browsers.
 * One address for all of its processes.
 */
import { z } from 'zod'
import { about } from './fields.ts'

const notUrl = 'is not the address of an API; write it like https://belfry.example.com, without ? and #'

export const publicFields = {
  publicUrl: z
    .url({ protocol: /^https?$/, error: notUrl })
    .regex(/^[^?#]+$/, { error: notUrl })
    .transform((url) => url.replace(/\/+$/, ''))
    .optional()
    .meta(
      about(
        'Address at which the API is reached, such as that of its proxy: by targets that report on runs ' +
          'that they took over, and by people, who are signed in in a browser only if it is https',
        'where the API listens, if that is on this machine only',
      ),
    ),
}
