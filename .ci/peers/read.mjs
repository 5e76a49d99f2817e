// Prints what two other readers make of each message: one line of JSON per file that standard input names.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { simpleParser } from "mailparser";
import PostalMime from "postal-mime";

const addresses = (list) => (list ?? []).flatMap((one) => one.group ?? [one]).map((one) => one.address ?? "");
const seconds = (date) => {
    const moment = date ? new Date(date).getTime() : NaN;
    return Number.isNaN(moment) ? null : Math.floor(moment / 1000);
};

async function mailparser(raw) {
    const mail = await simpleParser(raw, { skipTextToHtml: true, skipHtmlToText: true, skipImageLinks: true });
    const to = [mail.to ?? []].flat().flatMap((one) => one.value);
    return {
        subject: mail.subject ?? "",
        from: addresses(mail.from?.value),
        to: addresses(to),
        date: seconds(mail.headers.get("date")),
        text: mail.text ?? null,
        html: mail.html || null,
        attachments: mail.attachments.map((part) => [part.filename ?? "", part.content.length]),
    };
}

async function postalMime(raw) {
    const mail = await PostalMime.parse(raw);
    return {
        subject: mail.subject ?? "",
        from: addresses(mail.from ? [mail.from] : []),
        to: addresses(mail.to),
        date: seconds(mail.date),
        text: mail.text ?? null,
        html: mail.html ?? null,
        attachments: mail.attachments.map((part) => [part.filename ?? "", part.content.byteLength ?? part.content.length]),
    };
}

for await (const file of createInterface({ input: process.stdin })) {
    const raw = readFileSync(file);
    const read = async (reader) => {
        try {
            return await reader(raw);
        } catch (error) {
            return null;
        }
    };
    console.log(JSON.stringify({ mailparser: await read(mailparser), "postal-mime": await read(postalMime) }));
}
