"""azure-cognitiveservices-speech: SpeechRecognizer, continuously, with a list of phrases."""

import re
import threading

import azure.cognitiveservices.speech as speechsdk

import report


def main():
    options = report.arguments()
    told = report.Report("azure-cognitiveservices-speech")
    audio = report.Audio(options.audio)
    config = speechsdk.SpeechConfig(host=options.url, subscription=options.key)
    stream = speechsdk.audio.PushAudioInputStream(speechsdk.audio.AudioStreamFormat(samples_per_second=audio.rate))
    recognizer = speechsdk.SpeechRecognizer(speech_config=config, audio_config=speechsdk.audio.AudioConfig(stream=stream))
    speechsdk.PhraseListGrammar.from_recognizer(recognizer).addPhrase(options.word)
    stopped = threading.Event()

    def heard(role):
        def add(event):
            result = event.result
            told.add(role, str(result.reason), result.text, {"text": result.text, "offset": result.offset, "duration": result.duration})
        return add

    def canceled(event):
        details = event.cancellation_details
        if details.reason == speechsdk.CancellationReason.Error:
            text = re.sub(r" SessionId: \w+", "", details.error_details)  # another one each time
            told.fail(RuntimeError(text), code=str(details.code))
        stopped.set()

    recognizer.recognizing.connect(heard("partial"))
    recognizer.recognized.connect(heard("final"))
    recognizer.canceled.connect(canceled)  # also at the end of the audio
    recognizer.start_continuous_recognition()
    for chunk in report.paced(audio.chunks()):
        stream.write(chunk)
    stream.close()
    stopped.wait(30)
    recognizer.stop_continuous_recognition()
    if told.error is None:
        told.add("end", "canceled", "", {})
    told.print()


if __name__ == "__main__":
    main()
